"""What every part may use and that uses none of them: wording of numbers and names, and what is found by itself."""
