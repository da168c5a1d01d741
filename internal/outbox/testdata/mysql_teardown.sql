-- To be run by the owner of the table, with CREATE and ALTER on the database.

DROP TABLE IF EXISTS `shop`.`outbox`;
