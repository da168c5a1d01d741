package outbox

import "strings"

// Statement is one SQL statement.
type Statement struct {
	// Comment explains the statement, without comment marks; may be "".
	Comment string
	// SQL without the closing semicolon.
	SQL string
}

// Texts returns the SQL of statements.
func Texts(statements []Statement) []string {
	list := make([]string, len(statements))
	for i, s := range statements {
		list[i] = s.SQL
	}
	return list
}

// Script creates something in a database, and drops it.
type Script struct {
	// Name is part of file names: "create_outbox".
	Name string
	// Up can be repeated, also after a part of it failed.
	Up []Statement
	// Down undoes Up.
	Down []Statement
}

// render returns statements for psql, separated by blank lines.
func render(statements []Statement) string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.String()
	}
	return strings.Join(texts, "\n")
}

// String returns the statement with its comment and a semicolon.
func (s Statement) String() string {
	var b strings.Builder
	b.WriteString(s.comment())
	if strings.HasPrefix(s.SQL, "CREATE PROCEDURE ") { // the client mysql splits statements at semicolons
		return b.String() + "DELIMITER //\n" + s.SQL + "//\nDELIMITER ;\n"
	}
	b.WriteString(s.SQL + ";\n")
	return b.String()
}
