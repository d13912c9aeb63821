# Each binding has a separate user, which redis-cli creates and deletes. redis-cli reads the administrator's password from its
# environment, so no argument contains it. Redis receives only the hash of the user's password. ACL SAVE writes the users to the
# server's ACL file.

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
  user = "binding-${substr(sha256(var.binding_id), 0, 32)}" # an id may contain any characters

  # Redis answers OK or the number of deleted users. Any other answer is an error.
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

# The destruction of this resource deletes the user. OpenTofu does not run the destroy-time commands of a resource whose creation
# failed. Therefore this resource is created before the user and runs no command on creation, so that it is destroyed even if the
# creation of the user failed.
resource "terraform_data" "user" {
  count = var.acl_users ? 1 : 0
  input = { name = local.user, redis_cli = local.redis_cli, port = tostring(local.port) }

  provisioner "local-exec" {
    when    = destroy
    command = self.input.redis_cli
    environment = {
      # The variables of this run contain the current address and password. Those of the creation may be out of date.
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
