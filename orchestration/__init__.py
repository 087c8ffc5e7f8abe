"""The library that pipelines are written with: topics, transforms, tables, checks and marts as Dagster assets."""
