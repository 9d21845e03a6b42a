"""The audit feed: the log in pages, for named consumers and for others, in an envelope that their libraries know."""
