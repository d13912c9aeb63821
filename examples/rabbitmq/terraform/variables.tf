variable "hosts" {
  type = list(string)
}

variable "ssl" {
  type = bool
}

variable "port" {
  type = number
}

variable "management_port" {
  type = number
}

variable "ca_cert" {
  type = string
}

variable "admin_user" {
  type = string
}

variable "admin_password" {
  type      = string
  sensitive = true
}

variable "binding_id" {
  type = string
}

variable "user_password" {
  type      = string
  sensitive = true
}

variable "vhost" {
  type = string
}

variable "policies" {
  type = any
}
