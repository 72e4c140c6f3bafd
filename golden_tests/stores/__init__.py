"""State in stores."""
