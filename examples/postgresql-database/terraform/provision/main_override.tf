# This file is separate from main.tf, because the adapter generates main.tf again when it imports a database.
resource "pgaccess_database" "database" {
  lifecycle {
    prevent_destroy = true
  }
}
