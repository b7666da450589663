"""The models whose every operator is a site."""
