# A topic for each binding, made and deleted by the operator's commands: COMMAND ZOOKEEPERS TOPIC.

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
  # Names come from users and go through the environment only, where no shell reads them.
  create = "\"$COMMAND\" \"$ZOOKEEPERS\" \"$TOPIC\""
}

# A topic that cannot be created because it exists is not deleted by the roll-back: OpenTofu drops a resource whose creation failed
# without its destroy-time command.
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
      # The command and servers of now, not those of the creation.
      COMMAND    = jsondecode(file("terraform.tfvars.json")).deleter
      ZOOKEEPERS = join(",", jsondecode(file("terraform.tfvars.json")).zookeepers)
      TOPIC      = self.input.name
    }
  }
}

# The topic that the user named, which outlives the binding.
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
