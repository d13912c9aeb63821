resource "pgaccess_database" "database" {
  name             = var.db_name
  owner            = var.owner
  connection_limit = var.connection_limit
}
