CREATE TABLE purchases (id varchar(10) PRIMARY KEY, total int NOT NULL);
