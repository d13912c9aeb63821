# A node for each binding, made and deleted by the operator's client: --zookeeperServers HOST,HOST create|delete PATH.

variable "servers" {
  type = list(string)
}

variable "client" {
  type = string
}

variable "binding_id" {
  type = string
}

variable "director" {
  type = string
}

# A node that cannot be created because it exists is not deleted by the roll-back: OpenTofu drops a resource whose creation failed
# without its destroy-time command.
resource "terraform_data" "node" {
  input = { path = "/${var.binding_id}" }

  # Names come from users and go through the environment only, where no shell reads them.
  provisioner "local-exec" {
    command     = "\"$COMMAND\" --zookeeperServers \"$SERVERS\" create \"$NODE\""
    environment = { COMMAND = var.client, SERVERS = join(",", var.servers), NODE = "/${var.binding_id}" }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "\"$COMMAND\" --zookeeperServers \"$SERVERS\" delete \"$NODE\""
    environment = {
      # The client and servers of now, not those of the creation.
      COMMAND = jsondecode(file("terraform.tfvars.json")).client
      SERVERS = join(",", jsondecode(file("terraform.tfvars.json")).servers)
      NODE    = self.input.path
    }
  }
}

# The node that the user named, which outlives the binding.
resource "terraform_data" "director" {
  count      = var.director == "" ? 0 : 1
  depends_on = [terraform_data.node]
  input      = var.director

  provisioner "local-exec" {
    command     = "\"$COMMAND\" --zookeeperServers \"$SERVERS\" create \"$NODE\""
    environment = { COMMAND = var.client, SERVERS = join(",", var.servers), NODE = var.director }
  }
}

output "zookeeper_services" {
  value = [for address in var.servers : "${address}:2181"]
}

output "director" {
  value = var.director == "" ? "/${var.binding_id}" : startswith(var.director, "/") ? var.director : "/${var.director}"
}
