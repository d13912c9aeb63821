# A user and a vhost for each binding, made and deleted by the pak's command rabbitmq-access. Passwords are in its environment, never
# arguments.

locals {
  # Of the binding's id alone: an app may have several bindings. Ids are UUIDs, but nothing forces a platform to make them so.
  name  = can(regex("^[A-Za-z0-9-]{1,60}$", var.binding_id)) ? "b-${var.binding_id}" : "bh-${sha1(var.binding_id)}"
  vhost = var.vhost == "" ? local.name : var.vhost
  # Names are letters, digits, "-", "_" and ".", which a URL has as they are.
  policies = [for name, policy in var.policies : "${name} ${jsonencode({
    for key in ["pattern", "definition", "priority", "apply-to"] : key => policy[key] if can(policy[key])
  })}"]
}

# Its destruction deletes the user. It comes first and makes nothing, so that it is destroyed whatever became of the creation: a
# resource whose creation failed is dropped without its destroy-time commands.
resource "terraform_data" "access" {
  input = { user = local.name, vhost = local.vhost, keep = var.vhost == "" ? "no" : "yes" }

  provisioner "local-exec" {
    when    = destroy
    command = "rabbitmq-access delete"
    environment = {
      # The addresses and the administrator of now, not those of the creation.
      HOSTS      = join(",", jsondecode(file("terraform.tfvars.json")).hosts)
      PORT       = tostring(jsondecode(file("terraform.tfvars.json")).management_port)
      CA         = jsondecode(file("terraform.tfvars.json")).ca_cert
      TLS_NAME   = "rabbitmq.internal"
      AUTH       = base64encode("${jsondecode(file("terraform.tfvars.json")).admin_user}:${jsondecode(file("terraform.tfvars.json")).admin_password}")
      USER_PATH  = self.input.user
      VHOST_PATH = self.input.vhost
      KEEP_VHOST = self.input.keep
    }
  }
}

resource "terraform_data" "access_made" {
  depends_on = [terraform_data.access]
  input      = local.name

  provisioner "local-exec" {
    command = "rabbitmq-access create"
    environment = {
      HOSTS      = join(",", var.hosts)
      PORT       = tostring(var.management_port)
      CA         = var.ca_cert
      TLS_NAME   = "rabbitmq.internal"
      AUTH       = base64encode("${var.admin_user}:${var.admin_password}")
      USER_PATH  = local.name
      VHOST_PATH = local.vhost
      USER_BODY  = jsonencode({ password = var.user_password, tags = "management,policymaker" })
      POLICIES   = join("\n", local.policies)
    }
  }
}
