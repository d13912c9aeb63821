# Each value of the variable makes OpenTofu fail in another way, before it creates anything.
variable "failure" {
  type = string
  validation {
    condition     = var.failure != "validation"
    error_message = "the value is not valid"
  }
}

data "terraform_remote_state" "missing" {
  count   = var.failure == "data" ? 1 : 0
  backend = "local"
  config  = { path = "/nonexistent/terraform.tfstate" }
}

resource "terraform_data" "role" {
  input = {
    ""           = "reader"
    apply        = "reader"
    data         = "reader"
    precondition = "reader"
    validation   = "reader"
  }[var.failure]

  lifecycle {
    precondition {
      condition     = var.failure != "precondition"
      error_message = "the precondition does not hold"
    }
  }
}
