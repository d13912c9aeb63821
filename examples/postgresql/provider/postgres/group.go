package postgres

import (
	"context"
	"fmt"
)

// ensureGroup makes a role that owns what its members make. One that exists is used when nobody can log in as it and it
// is no superuser: its members act as it.
func ensureGroup(ctx context.Context, on querier, group string) error {
	found, err := lookUp(ctx, on, group)
	switch {
	case err != nil:
		return err
	case found == nil:
		name := identifier(group)
		err = statements(ctx, on, "CREATE ROLE "+name+" NOLOGIN", "COMMENT ON ROLE "+name+" IS "+literal(groupComment))
	case found.login || found.super:
		err = fmt.Errorf("role %q is no group: it can log in or is a superuser", group)
	}
	return err
}

// share gives a group the use of the database that one is connected to, and of its schema public. Nothing is written
// where it has it: the rows of databases and schemas are the ones that parallel grants would fight for.
func share(ctx context.Context, on querier, group, database string) error {
	const missing = `SELECT NOT has_database_privilege($1, current_database(), 'CREATE')
		OR NOT has_database_privilege($1, current_database(), 'CONNECT')
		OR NOT has_database_privilege($1, current_database(), 'TEMPORARY'),
		coalesce(NOT has_schema_privilege($1, to_regnamespace('public')::oid, 'CREATE')
		OR NOT has_schema_privilege($1, to_regnamespace('public')::oid, 'USAGE'), false)`
	var needsDatabase, needsSchema bool
	look := func() error { return on.QueryRow(ctx, missing, group).Scan(&needsDatabase, &needsSchema) }
	if err := look(); err != nil || !needsDatabase && !needsSchema {
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
	if err := look(); err != nil || !needsDatabase && !needsSchema {
		return err
	}
	return fmt.Errorf("the administrator may not grant privileges on database %q", database) // PostgreSQL only warns
}

// act makes an administrator who is no superuser a member of a role, as which some statements for it must be run.
func act(ctx context.Context, on querier, role string) error {
	var able bool
	if err := on.QueryRow(ctx, "SELECT pg_has_role($1, 'USAGE')", role).Scan(&able); err != nil || able {
		return err
	}
	return statements(ctx, on, "GRANT "+identifier(role)+" TO CURRENT_USER")
}
