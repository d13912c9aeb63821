resource "azurerm_mssql_database" "azure_sql_db" {
  requested_service_objective_name = var.service_objective
}
