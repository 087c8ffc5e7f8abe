"""Programs for whoever works on tidelog; nothing here is part of the installed package."""
