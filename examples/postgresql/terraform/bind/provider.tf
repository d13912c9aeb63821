terraform {
  required_providers {
    pgaccess = {
      source = "registry.terraform.io/service-adapter/pgaccess"
    }
  }
}

# The certificate of the server does not contain the address of the VM, so the host name cannot be verified. To verify the chain is
# sufficient, because the authority signs only the certificate of this server.
provider "pgaccess" {
  hosts          = [var.hostname]
  port           = var.port
  user           = var.admin_user
  password       = var.admin_password
  database       = "postgres"
  sslmode        = "verify-ca"
  ca_certificate = var.ca_cert
}
