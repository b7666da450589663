"""From what a scenario left behind to a verdict: examined, controlled, confirmed, added up."""
