"""Who is here, by what grant, and what that lets them have."""
