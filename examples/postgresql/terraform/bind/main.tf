locals {
  # A name has at most 63 bytes. Ids are usually UUIDs, but a platform may use other ids.
  username = can(regex("^[A-Za-z0-9-]{1,60}$", var.binding_id)) ? "b-${var.binding_id}" : "bh-${sha1(var.binding_id)}"
  address  = "${var.hostname}:${var.port}/${var.database}"
}

resource "pgaccess_role" "binding" {
  name             = local.username
  group            = "${var.database}_owner"
  database         = var.database
  marker           = "binding ${var.binding_id}"
  connection_limit = var.connection_limit
}
