# A user of the binding's own, made and deleted by redis-cli. The administrator's password is in its environment, never an argument;
# of the user's password Redis gets the hash. Users are saved to the server's ACL file.

variable "acl_users" {
  type    = bool
  default = false
}

variable "binding_id" {
  type = string
}

variable "user_password" {
  type      = string
  sensitive = true
}

variable "ca" {
  type      = string
  sensitive = true
}

locals {
  user = "binding-${substr(sha256(var.binding_id), 0, 32)}" # an id may hold anything

  # Redis answers OK, or how many users it deleted; whatever else comes is an error.
  redis_cli = <<-EOT
    set -eu
    ca=
    if [ "$SCHEME" = rediss ]; then
      ca=$(mktemp)
      trap 'rm -f "$ca"' EXIT
      printenv CA >"$ca"
    fi
    answer=$(printenv COMMANDS | redis-cli -h "$HOST" -p "$PORT" $${ca:+--tls --cacert "$ca"} 2>&1) || { echo "$answer"; exit 1; }
    if echo "$answer" | grep -Evx 'OK|[01]'; then exit 1; fi
  EOT
}

# Its destruction deletes the user. It comes first and makes nothing, so that it is destroyed whatever became of the creation: a
# resource whose creation failed is dropped without its destroy-time commands.
resource "terraform_data" "user" {
  count = var.acl_users ? 1 : 0
  input = { name = local.user, redis_cli = local.redis_cli, port = tostring(local.port) }

  provisioner "local-exec" {
    when    = destroy
    command = self.input.redis_cli
    environment = {
      # The address and password of now, not those of the creation.
      HOST          = jsondecode(file("terraform.tfvars.json")).host
      SCHEME        = jsondecode(file("terraform.tfvars.json")).scheme
      CA            = jsondecode(file("terraform.tfvars.json")).ca
      REDISCLI_AUTH = jsondecode(file("terraform.tfvars.json")).password
      PORT          = self.input.port
      COMMANDS      = "ACL DELUSER ${self.input.name}\nACL SAVE"
    }
  }
}

resource "terraform_data" "user_made" {
  count      = var.acl_users ? 1 : 0
  depends_on = [terraform_data.user]
  input      = local.user

  provisioner "local-exec" {
    command = local.redis_cli
    environment = {
      HOST          = var.host
      SCHEME        = var.scheme
      CA            = var.ca
      REDISCLI_AUTH = var.password
      PORT          = local.port
      COMMANDS      = "ACL SETUSER ${local.user} reset on #${sha256(var.user_password)} ~* &* +@all -@admin -@dangerous +info\nACL SAVE"
    }
  }
}
