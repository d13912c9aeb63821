resource "directory_entry" "database" {
  content = var.content
  name    = "database"
  path    = local.path
}

resource "directory_entry" "replica" {
  content  = var.content
  name     = "replica"
  path     = local.path
  provider = directory.east
}

resource "random_password" "admin" {
  length  = var.size
  lower   = true
  numeric = true
  special = var.special
}

resource "terraform_data" "imported" {
  input = var.settings
}

resource "terraform_data" "settings" {
  input = {
    "for" = {
      "$${x}" = ""
      "a b"   = "c"
      "null"  = null
    }
    "fraction" = 0.1
    "list"     = ["a", 1, true, null, []]
    "max"      = 9223372036854775807
    "secret"   = "hunter2"
    "size"     = 3
    "small"    = -0.000000000000000000001
    "wide"     = 123456789012345678901234567890
  }
}
