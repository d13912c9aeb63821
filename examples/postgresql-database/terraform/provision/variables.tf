variable "hostname" {
  type = string
}

variable "port" {
  type = number
}

variable "ca_cert" {
  type = string
}

variable "db_name" {
  type = string
}

variable "owner" {
  type = string
}

variable "connection_limit" {
  type = number
}
