"""What goes wrong around a job: kills, full disks, damaged files, dead workers; and programs that change."""
