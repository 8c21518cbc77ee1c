"""How values stand before a reader: on a terminal, in a report, in a table that goes elsewhere."""
