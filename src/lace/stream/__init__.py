"""ILTP: an exchange as bytes, and bytes as an exchange. Sans-IO: nothing here touches a socket."""
