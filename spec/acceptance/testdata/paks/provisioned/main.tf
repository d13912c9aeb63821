resource "directory_entry" "data" {
  path    = var.path
  name    = var.name
  content = var.content
}
