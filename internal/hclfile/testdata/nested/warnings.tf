resource "nest_thing" "first" {
  admin = {
    "login"    = "root"
    "password" = "secret three"
    "size"     = 7
  }
  anything = [{
    "a" = [1, "b", null, 123456789012345678901234567890.5]
  }]
  name     = "first"
  password = "secret one"
  peers = [{
    "host" = "a"
    }, {
    "host" = "b"
  }]
  rules = [{
    "port" = 80
    }, {
    "note" = "a\nb"
    "port" = 443
  }]
  rules_as_attributes = [{
    "from" = 1
    "to"   = null
  }]
  size = 20
  tags = {
    "$${x}" = "%%{ if c }"
    "for"   = "b"
    "name"  = "a key"
    "team"  = "a"
  }
  token = "secret two"
  zones = {
    "" = {}
    "a" = {
      "count" = 1
    }
    "b" = {
      "count" = 2
    }
  }
  address {
    ip = var.address
  }
  disk {
    size = 5
  }
  disk {
    key  = "secret four"
    size = 6
  }
  label "a" {
    value = "x"
  }
  label "b \"quoted\" $${b}" {
  }
  limits {
    cpu = 2
  }
  network {
    id = "net"
    route {
      to = "a"
    }
    route {
      to = "b"
    }
  }
}
