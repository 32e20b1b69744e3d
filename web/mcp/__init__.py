"""The Model Context Protocol: tools by which assistants ask a knowledge base, in a process of its own."""
