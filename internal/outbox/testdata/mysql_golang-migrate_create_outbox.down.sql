-- This loses the events that are not published yet.
DROP TABLE IF EXISTS `shop`.`outbox`;
