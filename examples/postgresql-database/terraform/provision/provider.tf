terraform {
  required_providers {
    pgaccess = {
      source = "registry.terraform.io/service-adapter/pgaccess"
    }
  }
}

# The provider reads the administrator's name and password from the environment variables PGACCESS_USER and PGACCESS_PASSWORD.
provider "pgaccess" {
  hosts          = [var.hostname]
  port           = var.port
  ca_certificate = var.ca_cert
}
