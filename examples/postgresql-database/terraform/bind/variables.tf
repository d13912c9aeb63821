variable "hostname" {
  type = string
}

variable "port" {
  type = number
}

variable "database" {
  type = string
}

variable "owner" {
  type = string
}

variable "ca_cert" {
  type = string
}

variable "binding_id" {
  type = string
}

variable "connection_limit" {
  type    = number
  default = -1
}
