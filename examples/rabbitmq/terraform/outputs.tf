locals {
  login = "${local.name}:${urlencode(var.user_password)}"
  web   = var.ssl ? "https" : "http"
  uris  = [for host in var.hosts : "${var.ssl ? "amqps" : "amqp"}://${local.login}@${host}:${var.port}/${local.vhost}"]
  apis  = [for host in var.hosts : "${local.web}://${local.login}@${host}:${var.management_port}/api/"]
}

output "uri" {
  value     = local.uris[0]
  sensitive = true
}

output "uris" {
  value     = local.uris
  sensitive = true
}

output "hostname" {
  value = var.hosts[0]
}

output "hostnames" {
  value = var.hosts
}

output "username" {
  value = local.name
}

output "password" {
  value     = var.user_password
  sensitive = true
}

output "vhost" {
  value = local.vhost
}

output "http_api_uri" {
  value     = local.apis[0]
  sensitive = true
}

output "http_api_uris" {
  value     = local.apis
  sensitive = true
}

output "dashboard_url" {
  value = "${local.web}://${var.hosts[0]}:${var.management_port}/"
}

output "ca_cert" {
  value = var.ca_cert == "" ? null : var.ca_cert
}
