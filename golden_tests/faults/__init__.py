"""What goes wrong around a job: kills, full disks, damaged files, two jobs at once."""
