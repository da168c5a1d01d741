-- To be run by the owner of the table, with CREATE and ALTER on the database.

DROP TABLE IF EXISTS `shop`.`outbox`;

-- Detached from shop.outbox.
SET SESSION group_concat_max_len = 1000000;

SET @cdc_relay_ddl = (
  SELECT COALESCE(CONCAT('DROP TABLE ', GROUP_CONCAT('`shop`.', '`', REPLACE(table_name, '`', '``'), '`' SEPARATOR ', ')), 'DO 0')
  FROM information_schema.tables WHERE table_schema = 'shop' AND CAST(LEFT(table_comment, CHAR_LENGTH('cdc-relay: taken out of shop.outbox, until ')) AS BINARY) = CAST('cdc-relay: taken out of shop.outbox, until ' AS BINARY)
);

PREPARE cdc_relay_ddl FROM @cdc_relay_ddl;

EXECUTE cdc_relay_ddl;

DEALLOCATE PREPARE cdc_relay_ddl;

DROP PROCEDURE IF EXISTS `shop`.`outbox_maintain`;
