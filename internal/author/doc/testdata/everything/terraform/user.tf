variable "address" { type = string }
