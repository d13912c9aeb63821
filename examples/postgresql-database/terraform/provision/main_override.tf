# Apart from main.tf, which is written anew when a database is imported, and would lose this.
resource "pgaccess_database" "database" {
  lifecycle {
    prevent_destroy = true
  }
}
