"""The command `unperturbed model`: tables, prior knowledge and options, and questions to the model."""
