# Values of pools that belong to the instance until it is destroyed. A pool is a text of the plan such as
# "10.1.0.10-10.1.0.12 | 10.2.0.10-10.2.0.12, 10.2.0.20": ranges and single values, and where it is grouped, a part for each network.

terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}

variable "pools" {
  type = string
}

variable "plan_id" {
  type = string
}

variable "deployment" {
  type = string
}

variable "network" {
  type = string
}

variable "networks" {
  type = list(string)
}

variable "keepalived" {
  type = any
}

locals {
  wanted = {
    vip               = { amount = 1, grouped = true }
    virtual_router_id = { amount = 1, grouped = false }
    ports             = { amount = 2, grouped = false }
  }
  pools = { for key, pool in local.wanted : key => pool if try(var.keepalived[key], "") != "" }
  texts = { for key, pool in local.pools : key => pool.grouped ? split("|", var.keepalived[key])[index(var.networks, var.network)] : var.keepalived[key] }

  # Both ends of each range as numbers; an address is one of four digits to the base 256.
  ranges = { for key, text in local.texts : key => [
    for range in split(",", text) : [
      for end in split("-", range) : sum([for place, digit in reverse(split(".", trimspace(end))) : tonumber(digit) * pow(256, place)])
    ]
  ] }
  numbers = { for key, ranges in local.ranges : key => flatten([for ends in ranges : range(ends[0], ends[length(ends) - 1] + 1)]) }
  values = { for key, numbers in local.numbers : key => [
    for number in numbers : strcontains(local.texts[key], ".") ? join(".", [for place in [3, 2, 1, 0] : floor(number / pow(256, place)) % 256]) : tostring(number)
  ] }
}

resource "directory_claim" "pool" {
  for_each   = local.pools
  path       = join("/", concat([var.pools, var.plan_id, each.key], each.value.grouped ? [var.network] : []))
  owner      = var.deployment
  candidates = local.values[each.key]
  amount     = each.value.amount
}

output "vip" {
  value = one([for key, claim in directory_claim.pool : claim.values[0] if key == "vip"])
}

output "virtual_router_id" {
  value = one([for key, claim in directory_claim.pool : tonumber(claim.values[0]) if key == "virtual_router_id"])
}

output "ports" {
  value = one([for key, claim in directory_claim.pool : [for value in claim.values : tonumber(value)] if key == "ports"])
}
