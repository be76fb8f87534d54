"""What an archive is on disk: layout, manifests, plans and the files of tasks."""
