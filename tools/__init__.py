"""Programs for developers of tidelog; nothing here is part of the installed package."""
