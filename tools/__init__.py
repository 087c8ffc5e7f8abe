"""Programs for developers of tidelog. The installed package has none of them."""
