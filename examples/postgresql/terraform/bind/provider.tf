terraform {
  required_providers {
    pgaccess = {
      source = "registry.terraform.io/service-adapter/pgaccess"
    }
  }
}

# The address of the VM is no name of its certificate, and the authority signs for this one server: the chain is enough.
provider "pgaccess" {
  hosts          = [var.hostname]
  port           = var.port
  user           = var.admin_user
  password       = var.admin_password
  database       = "postgres"
  sslmode        = "verify-ca"
  ca_certificate = var.ca_cert
}
