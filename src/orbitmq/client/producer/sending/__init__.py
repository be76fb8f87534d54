"""client.producer.sending: see DESIGN.md."""
