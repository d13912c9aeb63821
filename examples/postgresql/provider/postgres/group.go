package postgres

import (
	"context"
	"fmt"
)

// ensureGroup creates a role without login, which owns the objects that its members create, if the role does not exist.
// It returns an error if the role exists and can log in or is a superuser, because its members have its privileges, or
// if a query or statement fails.
func ensureGroup(ctx context.Context, on querier, group string) error {
	existing, err := readRole(ctx, on, group)
	switch {
	case err != nil:
		return err
	case existing == nil:
		name := identifier(group)
		err = statements(ctx, on, "CREATE ROLE "+name+" NOLOGIN", "COMMENT ON ROLE "+name+" IS "+literal(groupComment))
	case existing.login || existing.super:
		err = fmt.Errorf("role %q is not a group: it can log in or is a superuser", group)
	}
	return err
}

// grantDatabase grants a group all privileges on the connected database, whose name is database, and on its schema
// public if the schema exists. It grants only missing privileges, because concurrent grants on the same database or
// schema conflict. It returns an error if the administrator may not grant the privileges, or if a query or statement
// fails.
func grantDatabase(ctx context.Context, on querier, group, database string) error {
	const missing = `SELECT NOT has_database_privilege($1, current_database(), 'CREATE')
		OR NOT has_database_privilege($1, current_database(), 'CONNECT')
		OR NOT has_database_privilege($1, current_database(), 'TEMPORARY'),
		coalesce(NOT has_schema_privilege($1, to_regnamespace('public')::oid, 'CREATE')
		OR NOT has_schema_privilege($1, to_regnamespace('public')::oid, 'USAGE'), false)`
	var needsDatabase, needsSchema bool
	readMissing := func() error { return on.QueryRow(ctx, missing, group).Scan(&needsDatabase, &needsSchema) }
	if err := readMissing(); err != nil || !needsDatabase && !needsSchema {
		return err
	}
	var grants []string
	if needsDatabase {
		grants = append(grants, "GRANT ALL ON DATABASE "+identifier(database)+" TO "+identifier(group))
	}
	if needsSchema {
		grants = append(grants, "GRANT ALL ON SCHEMA public TO "+identifier(group))
	}
	if err := statements(ctx, on, grants...); err != nil {
		return err
	}
	if err := readMissing(); err != nil || !needsDatabase && !needsSchema {
		return err
	}
	return fmt.Errorf("the administrator may not grant privileges on database %q", database) // PostgreSQL only warns
}

// joinRole adds the administrator to the members of a role, because some statements for the role require its
// privileges. It changes nothing if the administrator has these privileges, as superusers do. It returns an error if
// the query or the statement fails.
func joinRole(ctx context.Context, on querier, role string) error {
	var member bool
	if err := on.QueryRow(ctx, "SELECT pg_has_role($1, 'USAGE')", role).Scan(&member); err != nil || member {
		return err
	}
	return statements(ctx, on, "GRANT "+identifier(role)+" TO CURRENT_USER")
}
