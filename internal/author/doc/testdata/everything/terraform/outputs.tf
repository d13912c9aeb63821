output "uri" { value = "postgresql://${var.address}/" }
