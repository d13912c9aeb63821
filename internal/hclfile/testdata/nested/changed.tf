resource "nest_thing" "first" {
  admin = {
    "password" = var.password
    "size"     = var.size
  }
  anything = [{
    "a" = [1, "b", null, 123456789012345678901234567890.5]
  }]
  name     = var.name
  password = var.password
  rules = [{
    "port" = 80
    }, {
    "port" = 443
  }]
  rules_as_attributes = [{
    "from" = 1
    "to"   = null
  }]
  seed  = "$${seed}"
  size  = var.size
  tags  = var.tags
  token = "secret two"
  zones = {
    "" = {}
    "a" = {
      "count" = local.count[0]
    }
    "b" = {
      "count" = local.count[0]
    }
  }
  address {
    ip = "::1"
  }
  disk {
    size = var.size
  }
  disk {
    key  = var.size
    size = var.size
  }
  limits {
    cpu = 2
  }
  network {
    id = "net"
    route {
    }
    route {
    }
  }
}

resource "nest_thing" "second" {
  seed = var.seed
  size = var.size
}
