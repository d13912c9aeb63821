output "uri" { value = "smtp://mail.example.com" }
