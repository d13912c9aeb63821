resource "directory_entry" "database" {
  content = "line one\nline \"two\"\\\n\ttab $${var.x} %%{ if true } $$$${ <<EOT\nEOT\n größe 数据 🎉"
  name    = "database"
  path    = "./data"
}

resource "directory_entry" "replica" {
  name = "replica"
  path = "./data"
}

resource "random_password" "admin" {
  length           = 20
  lower            = true
  numeric          = true
  override_special = "$%%{}"
  special          = true
  upper            = true
}

resource "terraform_data" "imported" {
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
