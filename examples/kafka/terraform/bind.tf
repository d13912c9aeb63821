# Each binding has a topic. The commands of the operator create and delete it. They are run as COMMAND ZOOKEEPERS TOPIC.

variable "brokers" {
  type = list(string)
}

variable "zookeepers" {
  type = list(string)
}

variable "creator" {
  type = string
}

variable "deleter" {
  type = string
}

variable "binding_id" {
  type = string
}

variable "topic" {
  type = string
}

locals {
  # Users choose the names. The command reads them from environment variables, so that the shell does not interpret them.
  create = "\"$COMMAND\" \"$ZOOKEEPERS\" \"$TOPIC\""
}

# If the creation fails because the topic exists, the topic is not deleted: OpenTofu removes a resource whose creation failed from the
# state and does not run its destroy-time command.
resource "terraform_data" "topic" {
  input = { name = var.binding_id }

  provisioner "local-exec" {
    command     = local.create
    environment = { COMMAND = var.creator, ZOOKEEPERS = join(",", var.zookeepers), TOPIC = var.binding_id }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "\"$COMMAND\" \"$ZOOKEEPERS\" \"$TOPIC\""
    environment = {
      # The variables of this run contain the current command and servers. Those of the creation may be out of date.
      COMMAND    = jsondecode(file("terraform.tfvars.json")).deleter
      ZOOKEEPERS = join(",", jsondecode(file("terraform.tfvars.json")).zookeepers)
      TOPIC      = self.input.name
    }
  }
}

# The topic that the user named. It is not deleted with the binding.
resource "terraform_data" "named_topic" {
  count      = var.topic == "" ? 0 : 1
  depends_on = [terraform_data.topic]
  input      = var.topic

  provisioner "local-exec" {
    command     = local.create
    environment = { COMMAND = var.creator, ZOOKEEPERS = join(",", var.zookeepers), TOPIC = var.topic }
  }
}

output "bootstrap_servers" {
  value = [for address in var.brokers : "${address}:9092"]
}
