"""JSON bodies: encoding and decoding, including fastjson's dialect."""
